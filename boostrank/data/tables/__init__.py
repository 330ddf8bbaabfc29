"""Tables: conversion of named columns, read by pyarrow, to blocks."""

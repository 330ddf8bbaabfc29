"""Tables: data frames of any library that narwhals reads, and Arrow streams, as rows and the categories of columns."""

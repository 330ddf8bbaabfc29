"""What a report shows: a file a section, each with `section(found) -> Section`."""

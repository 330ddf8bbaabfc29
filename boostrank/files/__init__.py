"""Files of ranking data: readers of each format, the rows kept on disk, judgements, and the file
tools."""

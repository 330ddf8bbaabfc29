"""Pages of one file that need no network: text, tables that sort and search, charts that can be taken out."""

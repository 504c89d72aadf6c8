"""Results of reads that are kept in memory and given again."""

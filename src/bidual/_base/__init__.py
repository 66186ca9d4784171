"""The foundation of every room: errors, statuses, array types, random keys, the archive format, the version."""

"""The fault campaign: what happens to runs, records and data when processes die, disks fill and bytes are wrong."""

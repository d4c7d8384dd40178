"""headnode-bmc: the process that owns every BMC session, sensor poll and console."""

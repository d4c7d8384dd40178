"""The management network: power, boot device, sensors, event log and consoles of every BMC."""

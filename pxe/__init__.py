"""What a node meets before it has an OS: DHCP, TFTP, boot scripts and discovery."""

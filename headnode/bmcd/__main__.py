"""Run by 'headnode up' and by systemd."""

from headnode.bmcd.daemon import main

main()

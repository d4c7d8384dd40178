#!/bin/sh
# Made by headnode from templates/preseed/disk.sh.j2 for node gpu01, profile gpu, layout single-disk. Changes here are overwritten.
# Names of disks change from start to start, so the one that was meant is found by its serial number. Without it nothing
# is partitioned: the installer stops here, and the head node is told.
wanted='disk-0001'
wget -q -O /tmp/headnode-step http://10.20.0.1/node/v1/seed/a-session/step/partitioning || true
for disk in $(list-devices disk); do
    for key in ID_SERIAL_SHORT ID_SERIAL ID_SCSI_SERIAL; do
        if [ "$(udevadm info --query=property --name="$disk" | sed -n "s/^$key=//p")" = "$wanted" ]; then
            echo "$disk" > /tmp/headnode-disk
        fi
    done
done
if [ -s /tmp/headnode-disk ] && debconf-set partman-auto/disk "$(cat /tmp/headnode-disk)"; then
    debconf-set grub-installer/bootdev "$(cat /tmp/headnode-disk)"
    exit 0
fi
wget -q -O /tmp/headnode-step http://10.20.0.1/node/v1/seed/a-session/step/no-disk || true
echo "Headnode: no disk has the serial number $wanted; nothing was written." > /dev/console
while true; do sleep 3600; done

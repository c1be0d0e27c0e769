#!/busybox sh
# The guest's first process: loads the modules, makes one soft-RoCE device, runs /share/script on the packages' root, and
# switches the machine off. The script's output and exit status are left in /share.
/busybox mount -t proc proc /proc
/busybox mount -t devtmpfs dev /dev
while read -r module; do
  /busybox insmod "/$module.ko" || echo "$module does not load"
done < /modules
options=trans=virtio,version=9p2000.L,msize=262144
/busybox mount -t 9p -o "$options,ro,cache=loose" root /root
/busybox mount -t 9p -o "$options" share /root/share
/busybox mount -t proc proc /root/proc
/busybox mount -t sysfs sys /root/sys
/busybox mount -t devtmpfs dev /root/dev
/busybox mount -t tmpfs tmp /root/tmp
/busybox mount -t tmpfs run /root/run
/busybox chroot /root /bin/busybox env -i PATH=/usr/bin:/usr/sbin HOME=/tmp /bin/busybox sh /share/script > /root/share/output 2>&1
echo $? > /root/share/status
/busybox poweroff -f

# What one node runs, in namespaces of its own. The environment has: NODE, ADDRESS, GATEWAY, DIR (its folder, with the files that
# the programs read), and KUBECONFIG and PROXY_KUBECONFIG.
set -eu
hostname "$NODE"

# The other end of its cable is connected from outside.
until ip link show eth0 >/dev/null 2>&1; do sleep 0.05; done
ip link set lo up
ip addr add "$ADDRESS/24" dev eth0
ip link set eth0 up
ip route add default via "$GATEWAY"

# What kubelet and containerd write below these never reaches the machine's own folders.
cd "$DIR"
mkdir -p groups lib log opt etc etc-work libexec libexec-work
mount --rbind /sys/fs/cgroup groups
mount -t sysfs sysfs /sys
mount --rbind groups /sys/fs/cgroup
umount -l groups
mount -t tmpfs tmpfs /run
mount --bind lib /var/lib
mount --bind log /var/log
mount --bind opt /opt
mount -t overlay overlay -o "lowerdir=/etc,upperdir=$DIR/etc,workdir=$DIR/etc-work" /etc
mount -t overlay overlay -o "lowerdir=/usr/libexec,upperdir=$DIR/libexec,workdir=$DIR/libexec-work" /usr/libexec
sysctl -qw net.ipv4.ip_forward=1 net.ipv4.conf.all.route_localnet=1

# The kubelet sets these for the whole machine: it gets files of its own instead.
for setting in vm/overcommit_memory:1 vm/panic_on_oom:0 kernel/panic:10 kernel/panic_on_oops:1 \
    kernel/keys/root_maxkeys:1000000 kernel/keys/root_maxbytes:25000000; do
  file=/run/$(echo "${setting%:*}" | tr / .)
  echo "${setting#*:}" >"$file"
  mount --bind "$file" "/proc/sys/${setting%:*}"
done
# Last: an unmount above would take along what containers are going to see.
mount --make-rshared /

containerd --config containerd.toml >containerd.log 2>&1 &
until ctr --address "$DIR/containerd.sock" version >/dev/null 2>&1; do sleep 0.1; done
kube-proxy --kubeconfig "$PROXY_KUBECONFIG" --hostname-override "$NODE" --proxy-mode nftables --conntrack-max-per-core 0 \
  --conntrack-tcp-timeout-established 0 --conntrack-tcp-timeout-close-wait 0 --metrics-bind-address 127.0.0.1:10249 >proxy.log 2>&1 &
exec kubelet --config kubelet.json --kubeconfig "$KUBECONFIG" --hostname-override "$NODE" --node-ip "$ADDRESS" \
  --root-dir /var/lib/kubelet --cert-dir "$DIR/pki"

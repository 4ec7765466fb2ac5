# Process 1 of a node: containerd and the kubelet end with it, and it ends when nobody holds its input.
set -eu
mount --make-rprivate /
mount -t proc proc /proc
for folder in run var/lib var/log; do
  mkdir -p "$DIR/$folder"
  mount --bind "$DIR/$folder" "/$folder"
done
containerd --config "$DIR/containerd.toml" >"$DIR/containerd.log" 2>&1 </dev/null &
until ctr --namespace k8s.io images import "$ARCHIVE" >"$DIR/import.log" 2>&1 </dev/null; do
  kill -0 $! # ends with an error when containerd has ended
  sleep 0.1
done
kubelet --config="$DIR/kubelet.yaml" --kubeconfig="$KUBECONFIG" --hostname-override="$NODE" --node-ip="$ADDRESS" --register-node=false \
  >"$DIR/kubelet.log" 2>&1 </dev/null &
cat >/dev/null

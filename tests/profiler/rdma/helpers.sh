# What the scripts of guests begin with.
set -e

# recorded FOLDER COMMAND...: runs it under the recorder, whose files are left in /share/records/FOLDER. PRELOAD names
# what is preloaded, if not the recorder.
recorded() {
  folder=$1; shift
  mkdir -p "/tmp/$folder" "/share/records/$folder"
  status=0
  LD_PRELOAD="${PRELOAD-/share/libtiresias_net.so}" TIRESIAS_PROFILE_DIR="/tmp/$folder" TIRESIAS_PROFILE_BYTES=1048576 "$@" || status=$?
  cp "/tmp/$folder"/*.net "/share/records/$folder/" # the recorder maps its file, which the share cannot
  return $status
}

# Waits until something listens on that port.
listening() {
  until grep -Eq ":$(printf %04X "$1") [0-9A-F]+:0000 0A" /proc/net/tcp /proc/net/tcp6; do sleep 0.1; done
}

# Waits until a server of the connection manager listens.
listening_cm() {
  until rdma resource show cm_id | grep -q LISTEN; do sleep 0.1; done
}

#!/usr/bin/env bash
# Make the view of this machine that scripts/fresh runs a command in, and run it: view.sh root|user COMMAND …
# It is the first process of a mount and a process namespace, so all of it ends with this script.
set -euo pipefail
who=$1
shift
disk=12G  # size of a sparse file: .venv takes 2.3 GB, installing it half as much again, Debian's packages 0.7 GB
memory=8G # limit if no file can be mounted; only the pages in use take memory

say() { printf 'fresh: %s\n' "$1" >&2; }

# Keep all that the view writes below one folder, on a disk file that is deleted already, or in memory.
mount_storage() {
  local file
  file=$(mktemp /var/tmp/fresh.XXXXXX)
  truncate --size="$disk" "$file"
  if ! { mkfs.ext4 -q -O ^has_journal "$file" && mount -o loop "$file" "$base"; } 2>/dev/null; then
    say "no file can be mounted here, so the view is in memory"
    mount -t tmpfs -o "size=$memory" tmpfs "$base"
  fi
  rm "$file"
}

mount_view() {
  mkdir "$base"/{upper,work,view}
  if ! mount -t overlay overlay -o "lowerdir=/,upperdir=$base/upper,workdir=$base/work" "$base/view"; then
    say "not possible here: this machine mounts no overlay on its root"
    exit 77
  fi
  local folder
  for folder in tmp var/tmp home root; do # new and empty, because an overlay would show this machine's files
    mkdir -p "$base/new/$folder"
    mount --bind "$base/new/$folder" "$base/view/$folder"
  done
  chmod 1777 "$base"/new/{tmp,var/tmp}
  chmod 700 "$base/new/root"
  for folder in sys dev; do mount --rbind "/$folder" "$base/view/$folder"; done
  mount -t tmpfs tmpfs "$base/view/dev/shm"
  mount -t tmpfs tmpfs "$base/view/run"
  mount -t proc proc "$base/view/proc"
}

# The view gets a clone, so files that are not committed stay outside.
clone_head() {
  git init -q "$1"
  git -C "$1" fetch -q "$PWD" HEAD
  git -C "$1" checkout -q FETCH_HEAD
}

# Change the root itself: in a mere chroot an ordinary user may not make namespaces.
enter() {
  cd "$base/view"
  mkdir old
  pivot_root . old
  umount -l /old
  rmdir /old
}

# Purge the installed packages of set-up, and those that only they need.
purge_packages() {
  local packages
  packages=$(PYTHONPATH=$home/slipway/scripts /usr/bin/python3 -B -c 'import set_up; print(*set_up.DEBIAN, sep="\n")')
  mapfile -t packages < <(dpkg-query --show --showformat='${db:Status-Abbrev} ${Package}\n' | grep '^ii' |
    cut -d ' ' -f 3 | grep -Fx "$packages")
  say "purging ${packages[*]}"
  local log
  log=$(mktemp)
  DEBIAN_FRONTEND=noninteractive apt-get purge -y -qq --auto-remove "${packages[@]}" >"$log" 2>&1 || {
    cat "$log" >&2
    exit 1
  }
  rm "$log"
}

# Keep the environment of a login, and the variables that lead to package registries.
new_environment() {
  local name
  environment=(HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/bash PATH="$path")
  while IFS= read -r name; do
    case $name in
    *_CACHE_DIR) ;; # a cache in somebody's home stays out
    *_proxy | *_PROXY | *CERT* | *_CA_* | PIP_* | UV_* | npm_config_* | NPM_CONFIG_* | LANG | TERM | NO_COLOR)
      environment+=("$name=${!name}")
      ;;
    esac
  done < <(compgen -e)
}

base=/run # hidden only in this namespace; no checkout is below it
mount_storage
mount_view
case $who in
root) user=root home=/root path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin ;;
*) user=visitor home="/home/$user" path=/usr/local/bin:/usr/bin:/bin ;;
esac
mkdir -p "$base/view$home"
clone_head "$base/view$home/slipway"
enter
if [ "$who" = user ]; then
  useradd --shell /bin/bash "$user"
  chown -R "$user:" "$home"
else
  purge_packages
fi
new_environment
cd "$home/slipway"
say "the view is ready after $SECONDS s"
env -i "${environment[@]}" setpriv --reuid "$user" --regid "$user" --init-groups "$@"

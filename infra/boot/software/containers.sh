#!/usr/bin/env bash
# Installs Enroot and pyxis, with which `srun --container-image` runs ranks in a container, without root and on the
# machine's own network. A user's AMI that has them is left unchanged. Sources: NVIDIA/enroot v3.5.0, doc/installation.md and
# doc/cmd/import.md; NVIDIA/pyxis v0.20.0, README.md; AWS PCS user guide, "Install SPANK plugins on AWS PCS" and
# "Configure SPANK plugins on AWS PCS". Not tried on AWS by this project.
set -euo pipefail

here="$(dirname "${BASH_SOURCE[0]}")"
# shellcheck source=infra/boot/steps.sh
. "$here/../steps.sh"

read_parameters
root="${SLIPWAY_ROOT:-}"
release="$(parameter slurm_version)"
slurm="$root/opt/aws/pcs/scheduler/slurm-$release"
settings="$root/etc/aws/pcs/scheduler/slurm-$release"
archive="$root/etc/apt/slipway.list"
# Signed packages of Ubuntu: those that Enroot's documentation names, and those that compile pyxis for the cluster's Slurm.
packages=(build-essential fuse-overlayfs git jq parallel pigz squashfs-tools squashfuse zstd)

main() {
  stop_upgrades
  if [[ -e $settings/plugstack.conf.d/pyxis.conf ]]; then
    return 0
  fi
  use_archive
  wait_for_dpkg apt-get update --quiet
  wait_for_dpkg apt-get install --quiet --yes --no-install-recommends "${packages[@]}"
  install_enroot
  install_pyxis
}

# Ubuntu's automatic upgrades hold dpkg's lock during the first minutes. Later they end jobs: needrestart restarts slurmd
# for a new library, and its steps end with it (awslabs/awsome-distributed-ai, architectures/aws-pcs/docs/OPERATIONS.md).
stop_upgrades() {
  systemctl mask --quiet --now apt-daily.timer apt-daily-upgrade.timer
}

# Only HTTPS leaves the nodes' network. Ubuntu's mirrors do not offer it, but its snapshots do: this uses the present one,
# which equals the mirrors. The AMI's own lists stay unchanged.
use_archive() {
  local pocket
  # shellcheck source=/dev/null
  . /etc/os-release
  mkdir -p "${archive%/*}"
  for pocket in "" -updates -security; do
    echo "deb [signed-by=/usr/share/keyrings/ubuntu-archive-keyring.gpg]" \
      "https://snapshot.ubuntu.com/ubuntu/$(date --utc +%Y%m%dT%H0000Z) $VERSION_CODENAME$pocket main universe"
  done >"$archive"
}

# An upgrade that runs already may finish.
wait_for_dpkg() {
  DEBIAN_FRONTEND=noninteractive "$1" -o DPkg::Lock::Timeout=300 \
    -o "Dir::Etc::SourceList=$archive" -o Dir::Etc::SourceParts=- "${@:2}"
}

install_enroot() {
  local folder name url sha256 local_files="$root/var/lib/enroot"
  if ! command -v enroot >/dev/null; then
    folder="$(mktemp --directory)"
    while read -r name url sha256; do
      download "$url" "$sha256" "$folder/$name"
    done < <(sed -n "s/^$(dpkg --print-architecture) //p" "$here/enroot.lock")
    wait_for_dpkg apt-get install --quiet --yes "$folder"/*.deb
    rm -rf "$folder"
  fi
  if mountpoint --quiet "$root/scratch"; then # the local disks
    local_files="$root/scratch/.enroot"
  fi
  install -d -m 1777 "$local_files"{,/cache,/data,/tmp} "$root/run/enroot"
  install -d -m 0755 "$root"/etc/enroot/slipway "$root/etc/tmpfiles.d"
  # Enroot expands $(…) when it reads these; each user has separate files. No token is stored: each import asks for a new
  # password of the registry.
  cat >"$root/etc/enroot/enroot.conf" <<SETTINGS
ENROOT_CONFIG_PATH $root/etc/enroot/slipway
ENROOT_RUNTIME_PATH $root/run/enroot/user-\$(id -u)
ENROOT_CACHE_PATH $local_files/cache/user-\$(id -u)
ENROOT_DATA_PATH $local_files/data/user-\$(id -u)
ENROOT_TEMP_PATH $local_files/tmp
ENROOT_TRANSFER_RETRIES 5
SETTINGS
  echo "machine $(parameter container_registry) login AWS password" \
    "\$(aws ecr get-login-password --region $(parameter region))" >"$root/etc/enroot/slipway/.credentials"
  echo 'd /run/enroot 1777 root root' >"$root/etc/tmpfiles.d/slipway-enroot.conf"
}

# download URL SHA256 FILE: Enroot publishes no checksums of its packages. Until the lock has one, a file is only as safe
# as the connection to its publisher, and the log says which checksum to write there.
download() {
  local found
  curl --fail --silent --show-error --location --retry 5 --output "$3" "$1"
  found="$(sha256sum "$3")"
  found="${found%% *}"
  if [[ $2 == unlisted ]]; then
    echo "slipway: $1 has the SHA-256 $found, which infra/boot/software/enroot.lock does not hold yet" >&2
  elif [[ $found != "$2" ]]; then
    echo "slipway: $1 has the SHA-256 $found, and $2 is locked" >&2
    return 1
  fi
}

install_pyxis() {
  local source commit
  commit="$(sed -n 's/^pyxis //p' "$here/enroot.lock")"
  source="$(mktemp --directory)"
  git clone --quiet --no-checkout https://github.com/NVIDIA/pyxis.git "$source"
  git -C "$source" -c advice.detachedHead=false checkout --quiet "$commit" # a commit's name is the hash of its files
  # A plug-in works with one release of Slurm, whose name is in the settings that this writes.
  CPPFLAGS="-I$slurm/include" make --silent -C "$source" install "prefix=$slurm"
  rm -rf "$source"
  install -d -m 0755 "$settings/plugstack.conf.d"
  echo "required $slurm/lib/slurm/spank_pyxis.so" >"$settings/plugstack.conf.d/pyxis.conf"
}

main

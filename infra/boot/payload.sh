#!/usr/bin/env bash
# slipway-payload.service: on AWS's own AMIs, installs this project's software, for which user data has no room. The
# launch template names its digest, under which it is in S3. A baked AMI has it already, and nothing is named there.
set -Eeuo pipefail # -E: a failure inside a function has to reach the trap
shopt -s inherit_errexit

# shellcheck source=infra/boot/steps.sh
. "$(dirname "${BASH_SOURCE[0]}")/steps.sh"

readonly PAYLOAD="${SLIPWAY_PAYLOAD:-/opt/slipway/payload}"
readonly FETCH_ATTEMPTS=6

main() {
  trap refuse_jobs ERR
  during software read_parameters
  if [[ -n "$(parameter payload.url)" ]]; then
    during software fetch "$(parameter payload.url)" "$(parameter payload.sha256)"
    during software "$PAYLOAD/boot/software/$(parameter payload.installed_by)"
  fi
}

fetch() {
  local url="$1" sha256="$2" attempt
  mkdir -p "${PAYLOAD%/*}"
  for ((attempt = 1; attempt < FETCH_ATTEMPTS; attempt++)); do
    if aws s3 cp --only-show-errors --region "$(parameter region)" "$url" "$PAYLOAD.zip"; then
      break
    fi
    sleep 10
  done
  echo "$sha256  $PAYLOAD.zip" | sha256sum --check --strict --quiet
  rm -rf "$PAYLOAD"
  python3 -m zipfile --extract "$PAYLOAD.zip" "$PAYLOAD"
  chmod +x "$PAYLOAD"/boot/software/*.sh # a zip archive does not keep this
}

main

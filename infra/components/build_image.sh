#!/usr/bin/env bash
# Runs in CodeBuild, in the folder of containers/: builds images/IMAGE and pushes it as REPOSITORY:TAG.
set -euo pipefail
: "${IMAGE:?slipway build sets it}" "${TAG:?slipway build sets it}" "${REPOSITORY:?slipway build sets it}"

registry="${REPOSITORY%%/*}"
name="${REPOSITORY#*/}"

# A tag is a digest of the sources and never moves, so what is there already is what would be built.
if aws ecr describe-images --repository-name "$name" --image-ids "imageTag=$TAG" >/dev/null 2>&1; then
  echo "$REPOSITORY:$TAG exists already"
  exit 0
fi

aws ecr get-login-password | docker login --username AWS --password-stdin "$registry"
docker build --pull --file "images/$IMAGE/Dockerfile" --tag "$REPOSITORY:$TAG" .

# What the base image's tag meant today: the digest to write into the image's lock.toml.
base="$(sed -n 's/^FROM \([^ ]*\).*/\1/p' "images/$IMAGE/Dockerfile" | head -n 1)"
docker image inspect --format 'base image: {{join .RepoDigests " "}}' "$base"

docker push "$REPOSITORY:$TAG"
docker image inspect --format 'pushed: {{join .RepoDigests " "}}' "$REPOSITORY:$TAG"

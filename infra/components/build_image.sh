#!/usr/bin/env bash
# Runs in CodeBuild, in the folder of containers/: builds images/IMAGE and pushes it as REPOSITORY:TAG.
set -euo pipefail
: "${IMAGE:?slipway image build sets it}" "${TAG:?slipway image build sets it}" "${REPOSITORY:?slipway image build sets it}"

registry="${REPOSITORY%%/*}"
name="${REPOSITORY#*/}"

# A tag is a digest of the sources and never moves, so an existing image is the one that would be built.
if aws ecr describe-images --repository-name "$name" --image-ids "imageTag=$TAG" >/dev/null 2>&1; then
  echo "$REPOSITORY:$TAG exists already"
  exit 0
fi

aws ecr get-login-password | docker login --username AWS --password-stdin "$registry"
if [ -d project ]; then
  # A project's own image: what its Dockerfile builds, and the code that starts jobs on top.
  dockerfile=project/Dockerfile
  docker build --pull --tag own-base project
  docker build --file on_top.Dockerfile --build-arg BASE=own-base --tag "$REPOSITORY:$TAG" .
else
  dockerfile="images/$IMAGE/Dockerfile"
  docker build --pull --file "$dockerfile" --tag "$REPOSITORY:$TAG" .
fi

# Print the digest of the base image's tag today, for the image's lock.toml. A project's Dockerfile
# may name an argument or a stage there, which has no digest.
base="$(sed -n 's/^FROM \([^ ]*\).*/\1/p' "$dockerfile" | head -n 1)"
docker image inspect --format 'base image: {{join .RepoDigests " "}}' "$base" || true

docker push "$REPOSITORY:$TAG"
docker image inspect --format 'pushed: {{join .RepoDigests " "}}' "$REPOSITORY:$TAG"

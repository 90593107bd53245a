#!/usr/bin/env bash
# Runs in CodeBuild, in the folder of containers/: builds images/IMAGE and pushes it as REPOSITORY:TAG.
set -euo pipefail
: "${IMAGE:?slipway image build sets it}" "${TAG:?slipway image build sets it}" "${REPOSITORY:?slipway image build sets it}"

registry="${REPOSITORY%%/*}"
name="${REPOSITORY#*/}"

# A tag is a digest of the sources and never moves, so what is there already is what would be built.
if aws ecr describe-images --repository-name "$name" --image-ids "imageTag=$TAG" >/dev/null 2>&1; then
  echo "$REPOSITORY:$TAG exists already"
  exit 0
fi

aws ecr get-login-password | docker login --username AWS --password-stdin "$registry"
if [ -d project ]; then
  # A project's own image: what its Dockerfile makes, and on top of that the code that starts jobs.
  dockerfile=project/Dockerfile
  docker build --pull --tag own-base project
  docker build --file on_top.Dockerfile --build-arg BASE=own-base --tag "$REPOSITORY:$TAG" .
else
  dockerfile="images/$IMAGE/Dockerfile"
  docker build --pull --file "$dockerfile" --tag "$REPOSITORY:$TAG" .
fi

# What the base image's tag meant today: the digest to write into the image's lock.toml. An own
# one may name an argument or a stage there, which has none.
base="$(sed -n 's/^FROM \([^ ]*\).*/\1/p' "$dockerfile" | head -n 1)"
docker image inspect --format 'base image: {{join .RepoDigests " "}}' "$base" || true

docker push "$REPOSITORY:$TAG"
docker image inspect --format 'pushed: {{join .RepoDigests " "}}' "$REPOSITORY:$TAG"

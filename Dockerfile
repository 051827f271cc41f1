# The scheduler's image: one static binary, a non-root user and the certificate authorities. No shell.
FROM --platform=$BUILDPLATFORM golang:1.26 AS build
ARG TARGETOS TARGETARCH
ARG VERSION=unknown
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN GOOS=$TARGETOS GOARCH=$TARGETARCH make bin/gpu-topology-scheduler VERSION="$VERSION"

FROM scratch
LABEL org.opencontainers.image.title="gpu-topology-scheduler" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /src/bin/gpu-topology-scheduler /gpu-topology-scheduler
USER 65532:65532
EXPOSE 10259
ENTRYPOINT ["/gpu-topology-scheduler"]

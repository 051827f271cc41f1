package tracing

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/exporters/stdout/stdouttrace"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

const (
	envDisabled       = "OTEL_SDK_DISABLED"
	envExporter       = "OTEL_TRACES_EXPORTER"
	envEndpoint       = "OTEL_EXPORTER_OTLP_ENDPOINT"
	envTracesEndpoint = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
	envProtocol       = "OTEL_EXPORTER_OTLP_PROTOCOL"
	envTracesProtocol = "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"
	envQueue          = "OTEL_BSP_MAX_QUEUE_SIZE"
	envBatch          = "OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
	envDelay          = "OTEL_BSP_SCHEDULE_DELAY"
)

// serviceName is what the spans are of where the environment does not say.
const serviceName = "gpu-topology-scheduler"

// FromEnvironment returns the tracer that the environment asks for, nil if it asks for none. It opens no connection. The error
// names the variable at fault and its value.
func FromEnvironment(ctx context.Context) (*Tracer, error) {
	kind, err := kindOf()
	if err != nil || kind == kindNone {
		return nil, err
	}
	if err := checkEnvironment(); err != nil {
		return nil, err
	}
	exporter, err := newExporter(ctx, kind)
	if err != nil {
		return nil, fmt.Errorf("%s, %s: %w", envExporter, kind, err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(attribute.String("service.name", serviceName)),
		resource.WithTelemetrySDK(),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("OTEL_RESOURCE_ATTRIBUTES: %w", err)
	}
	return New(exporter, queueSize(), sdktrace.WithResource(about)), nil
}

// The kinds of exporters.
const (
	kindNone    = ""
	kindConsole = "console"
	kindGRPC    = "grpc"
	kindHTTP    = "http/protobuf"
)

// kindOf says what the environment asks for.
func kindOf() (string, error) {
	exporter := os.Getenv(envExporter)
	if exporter == "" && (os.Getenv(envEndpoint) != "" || os.Getenv(envTracesEndpoint) != "") {
		exporter = "otlp"
	}
	switch {
	case exporter == "", exporter == "none", strings.EqualFold(os.Getenv(envDisabled), "true"):
		return kindNone, nil
	case exporter == kindConsole:
		return kindConsole, nil
	case exporter != "otlp":
		return "", fmt.Errorf("%s is %q: want otlp, console or none", envExporter, short(exporter))
	}
	name := envTracesProtocol
	if os.Getenv(name) == "" {
		name = envProtocol
	}
	switch protocol := os.Getenv(name); protocol {
	case "":
		return kindHTTP, nil
	case kindGRPC, kindHTTP:
		return protocol, nil
	default:
		return "", fmt.Errorf("%s is %q: want grpc or http/protobuf", name, short(protocol))
	}
}

// The highest values of the variables that the SDK takes as they are.
const (
	mostSpans = 1 << 20
	mostDelay = 24 * 60 * 60 * 1000 // milliseconds
)

// checkEnvironment refuses what the SDK would not: sizes that it panics at, a delay that keeps it busy for ever, and an endpoint in
// the place of which it would take another one.
func checkEnvironment() error {
	for _, v := range []struct {
		name string
		most int
	}{{envQueue, mostSpans}, {envBatch, mostSpans}, {envDelay, mostDelay}} {
		value := os.Getenv(v.name)
		if n, err := strconv.Atoi(value); value != "" && (err != nil || n < 1 || n > v.most) {
			return fmt.Errorf("%s is %q: want a number from 1 to %d", v.name, short(value), v.most)
		}
	}
	for _, name := range []string{envEndpoint, envTracesEndpoint} {
		value := os.Getenv(name)
		u, err := url.Parse(value)
		if value != "" && (err != nil || u.Scheme != "unix" && (u.Host == "" || u.Scheme != "http" && u.Scheme != "https")) {
			return fmt.Errorf("%s is %q: want a URL like http://collector:4317", name, short(value))
		}
	}
	return nil
}

// newExporter returns nil for kindNone.
func newExporter(ctx context.Context, kind string) (sdktrace.SpanExporter, error) {
	switch kind {
	case kindConsole:
		return stdouttrace.New()
	case kindGRPC:
		return otlptracegrpc.New(ctx)
	case kindHTTP:
		return otlptracehttp.New(ctx)
	}
	return nil, nil
}

// queueSize is what the SDK takes, of an environment that was checked.
func queueSize() int {
	if n, err := strconv.Atoi(os.Getenv(envQueue)); err == nil {
		return n
	}
	return sdktrace.DefaultMaxQueueSize
}

// short cuts a value from outside to what an error may repeat.
func short(value string) string {
	const most = 64
	if len(value) > most {
		return strings.ToValidUTF8(value[:most], "") + "..."
	}
	return value
}

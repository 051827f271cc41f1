// Package tracing shows where the time of a pod goes, as OpenTelemetry spans.
//
//	plan         a gang is planned and its cards are taken, in the attempt of the member that came first
//	reserve      cards are chosen and taken, or taken over from the plan
//	permit wait  from the end of the pod's own cycle until its bind begins or it is rejected
//	bind         the Binding is sent, and where its answer is lost, the pod read back
//	rollback     a reservation is given back
//
// The spans of one attempt to schedule one pod are one trace: the first of them is its root, the others are its children.
// What belongs to a plan has its name as an attribute.
//
// # Environment
//
// The standard variables of OpenTelemetry decide where spans go; there is no argument for it.
//
//	OTEL_SDK_DISABLED=true                 off
//	OTEL_TRACES_EXPORTER                   otlp, console (to stdout) or none; nothing: otlp where an endpoint is set, else off
//	OTEL_EXPORTER_OTLP_[TRACES_]ENDPOINT   where otlp sends to
//	OTEL_EXPORTER_OTLP_[TRACES_]PROTOCOL   grpc or http/protobuf (the default)
//	OTEL_SERVICE_NAME, OTEL_RESOURCE_ATTRIBUTES, OTEL_TRACES_SAMPLER, OTEL_BSP_*, other OTEL_EXPORTER_OTLP_*
//	                                       as the OpenTelemetry SDK reads them
//
// # Cost
//
// Off, a nil Tracer costs a comparison at each call site, and no memory. On, a span that ends is put into a bounded queue
// (OTEL_BSP_MAX_QUEUE_SIZE) that one goroutine sends from: nobody waits for a collector, and what finds the queue full or
// cannot be sent is counted and dropped. Spans are started and ended by callers that hold no lock of ours.
package tracing

// Package process runs the project's binaries as child processes of a test or
// of the demo: bin/local-control-plane, bin/kwok and bin/gpu-topology-scheduler.
// It links only the standard library.
//
// # States of a child
//
//	Start --> starting --readiness line and URL--> ready --> ended
//	             |                                   ^         ^
//	             +-- exit, context, or failure: killed, Start returns an error with the end of its log
//	ready: Stop = SIGTERM, then SIGKILL after the grace period; Kill = SIGKILL at once
//
// Done is closed when the child has been reaped and its log file is complete.
//
// # No child is left behind
//
// A child is the leader of its own process group, so that Ctrl-C in a terminal
// reaches the parent alone, which then stops its children in order. When the
// parent dies without stopping them, Linux kills them (parent death signal); a
// child started with HoldStdin learns it on every system by the end of its
// standard input. On other systems than Linux a child without HoldStdin
// outlives a parent that was killed.
package process

// Package integration runs the scheduler against a real API server: bin/local-control-plane in its own process, so that
// the race detector watches the scheduler and not the server. `make build` makes the binaries; without them the tests
// skip and say so.
//
//	cluster    a control plane, a client and the fixtures' nodes; nothing but the scheduler under test acts on it
//	replica    the scheduler with the shipped configuration, in this process
//	faultyAPI  a proxy in front of the API server that loses answers on purpose
//
// After every scenario check compares the ledger with one rebuilt from the live pods and their records, and looks for
// a card that two pods hold.
package integration

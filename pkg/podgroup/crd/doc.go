// Package crd installs the PodGroup API in a cluster that lacks it. The demo and the tests do; the scheduler does not: it
// uses the API where somebody installed it and waits for it where nobody has.
package crd

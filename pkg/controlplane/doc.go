// Package controlplane runs etcd and kube-apiserver inside the calling process,
// for tests and for the demo. It needs no root, no container runtime, no
// kubectl and no network beyond loopback.
//
// # Data flow
//
//	Options --> kube-apiserver flags --> validated options (nothing started yet)
//	DataDir --> lock --> certificates --> etcd (unix socket) --> kube-apiserver (loopback TCP)
//	                                                          --> /readyz ok --> admin.kubeconfig
//
// The data directory holds everything that outlives a run:
//
//	lock               taken while a control plane runs on the directory
//	etcd/              every API object
//	pki/               CA, serving and admin certificates, service account key
//	admin.kubeconfig   system:masters, rewritten by every start
//
// A second Start on the same directory finds the same objects and trusts the
// same credentials and tokens. Start picks a free port; Restart keeps it, so
// that clients and informers reconnect by themselves.
//
// # States
//
//	Start --> running --Stop or crash--> stopped --Restart--> running
//
// Done is closed when the present run has ended and everything below has been
// released, in this order: API server drained, etcd closed, feature gates put
// back, directory unlocked. Stop(ctx) returns early when ctx ends; the release
// goes on in the background, and upstream bounds it at about a minute.
//
// # What this control plane is not
//
// There is no kube-controller-manager: nothing garbage-collects by owner
// reference, completes the deletion of a namespace, creates pods of a
// Deployment or default service accounts, or changes node taints. Admission
// plugins whose additions only such a controller takes away again are off
// (see admissionOff); everything else is upstream's default, and RBAC is on.
// etcd does not fsync: data survives a killed process, not a power cut.
//
// # Several in one process
//
// Several control planes may run in one process. kube-apiserver reads its
// feature gates from a process-wide variable, so all that run at the same time
// must have equal FeatureGates and EmulatedVersion; Start refuses a second set
// by name. A component in the same process that reads the default gates (the
// scheduler does) sees the same values. To run different versions side by side
// start bin/local-control-plane through package process. kube-apiserver logs
// to klog, which is process-wide too.
//
// # Goroutines
//
// Everything this package starts has ended when Done is closed, and so has etcd.
// Timers of kube-apiserver's watch cache take up to three seconds more, and the
// health check of its log, one goroutine, lasts as long as the process; nothing
// else is left, and a test holds that.
package controlplane

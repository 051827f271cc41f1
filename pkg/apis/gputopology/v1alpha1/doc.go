// Package v1alpha1 holds what the scheduler and the outside world say to each other through the API server: the keys
// of group gputopology.io and the two JSON values kept under them. It is the only place that knows their spelling.
//
//	Node, annotation gputopology.io/topology      --ParseTopology-->  topology.Spec   (written by FormatTopology)
//	Pod,  annotation gputopology.io/allocation    --ParseRecord---->  Record          (written by Record.Format)
//	Pod,  resources and annotations of a request  --package request-> allocate.Request
//
// # The record
//
// A bound pod carries what it holds, one line of JSON, written in the same transaction that binds it:
//
//	{"v":1,"node":"n1","cards":[
//	  {"index":0,"uuid":"GPU-6f0c…","sliceMask":"0xffffffffffffffff","vramBytes":85899345920,"computeMilli":1000}],
//	 "gang":"ml/llama","rank":3}
//
// cards is what the pod is charged for, each card or MIG instance once. containers, present when more than one
// container claims cards, says which of them each container uses. uuid, mig, containers, gang, rank and plan are left
// out where there is nothing to say; the other fields are required, since a missing number must not read as zero.
// sliceMask is a hexadecimal string because JSON numbers lose bits above 2^53.
//
// # The topology
//
// A node may carry a description of its cards, which then counts before every other source:
//
//	{"v":1,
//	 "cards":[{"uuid":"GPU-a","product":"NVIDIA H100 80GB HBM3","vramBytes":85899345920,"numa":0,
//	           "busID":"00000000:1B:00.0","pcieSwitch":"s0","pcieRoot":"r0"},
//	          {"uuid":"GPU-b","vramBytes":85899345920,"healthy":false,
//	           "mig":{"enabled":true,"instances":[{"profile":"1g.10gb","uuid":"MIG-c","start":0,"size":1}]}}],
//	 "links":["X NV18","NV18 X"],
//	 "nics":[{"name":"mlx5_0","links":"PIX NODE"}],
//	 "nvswitch":true,
//	 "observedAt":"2026-01-02T15:04:05Z"}
//
// The position of a card is its index. Everything about a card is optional: healthy defaults to true, an absent numa
// or vramBytes is unknown. links has one row a card, cells as `nvidia-smi topo -m` prints them and "?" for unknown;
// without links every link is unknown. A card whose own numbers cannot be true (vramBytes 0 or negative) is kept with
// a fault, so that it takes no pod while its neighbours do. Anything else that is wrong refuses the whole value.
//
// # Versions
//
// v is 1. Within 1, fields may be added: a reader ignores fields it does not know. A change that an old reader would
// misread gets another number, which this package refuses with a *VersionError.
//
// # Bad input
//
// Values come from objects that others can write. Every error names the field and its value, cut to 64 characters. An
// annotation over MaxAnnotationBytes or with invalid UTF-8 is refused unread.
package v1alpha1

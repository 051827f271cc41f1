// Package faults is a proxy in front of an API server that fails on order.
//
//	scheduler --HTTP--> Proxy --admin's credentials--> API server
//	                      ^
//	                      +-- Arm(Fault), Disarm, CutWatches: what the chaos test wants to happen
//
// A Fault waits for the next request of its class and happens to it, as often as it says:
//
//	Conflict, TooMany, TooManyWait, ServerError   the proxy answers; the server never hears of the request
//	Reset     the connection is closed; the server never hears of the request
//	Lost      the server has answered, so the request is committed; then the connection is closed
//	Delay     the request waits before it is passed on; when its client goes away meanwhile it is dropped
//	Late      the answer waits before it is passed back
//	Cut       half of the answer is passed back, then the connection is closed
//
// A client that dies takes its delayed requests with it, and MaxDelay is shorter than the leases of the chaos test: no
// request of a former leader reaches the server after another replica leads, but those that the former leader sends then.
package faults

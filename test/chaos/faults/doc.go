// Package faults is a proxy in front of an API server that fails on order.
//
//	scheduler --HTTP--> Proxy --admin's credentials--> API server
//	                      ^
//	                      +-- Arm(Fault), Disarm, CutWatches, Hang: what the chaos test wants to happen
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
// CutWatches ends watches, of which the client is told; Hang keeps back what they say, of which nothing tells it.
//
// A client that dies takes its delayed requests with it. MaxDelay is shorter than the part of a lease in which a leader sends
// no Binding any more, so that none reaches the server after another replica leads.
package faults

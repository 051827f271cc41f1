// Package preflight asks the API server, before the scheduler starts, for the API versions that the scheduler
// would otherwise wait for without end, and turns off the feature gates whose API is not served.
//
//	flags -> kubeconfig -> discovery -> Missing(requirements) -> --feature-gates += "Gate=false"
//
// A kube-scheduler starts informers for what its own release serves by default. Against an older API server such
// an informer never syncs and the scheduler hangs. Gates of upstream that cost this scheduler more than they give (Costly)
// are turned off too. A gate that the user sets explicitly is left as it is.
package preflight

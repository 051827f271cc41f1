// Package access makes credentials for a local control plane: service account
// tokens and kubeconfig files. It links client-go only, so that a CLI can use
// it without the API server.
//
//	admin config --TokenRequest(namespace/name)--> rest.Config --WriteKubeconfig--> file for a child process
package access

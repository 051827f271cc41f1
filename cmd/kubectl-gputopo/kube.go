package main

import (
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

// kube finds the API server as kubectl does: --kubeconfig, KUBECONFIG, ~/.kube/config, the pod's service account.
type kube struct {
	kubeconfig, context string
}

func (k *kube) addFlags(flags *pflag.FlagSet) {
	flags.StringVar(&k.kubeconfig, "kubeconfig", "", "`file` to use in place of $KUBECONFIG and ~/.kube/config")
	flags.StringVar(&k.context, "context", "", "`name` of the kubeconfig context to use")
}

func (k *kube) connect() (kubernetes.Interface, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = k.kubeconfig
	overrides := &clientcmd.ConfigOverrides{CurrentContext: k.context}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides).ClientConfig()
	if err != nil {
		return nil, err
	}
	return kubernetes.NewForConfig(config)
}

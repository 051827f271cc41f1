package access

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// DefaultTokenLife is long enough for any test or demo; tokens are not renewed.
const DefaultTokenLife = 24 * time.Hour

// ServiceAccount returns a configuration for admin's server that authenticates
// as the existing service account namespace/name, with a token valid for life
// (at least ten minutes) and nothing of admin's own credentials.
func ServiceAccount(ctx context.Context, admin *rest.Config, namespace, name string, life time.Duration) (*rest.Config, error) {
	client, err := kubernetes.NewForConfig(admin)
	if err != nil {
		return nil, err
	}
	seconds := int64(life / time.Second)
	got, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, name,
		&authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &seconds}}, metav1.CreateOptions{})
	if err != nil {
		return nil, fmt.Errorf("token for service account %s/%s: %w", namespace, name, err)
	}
	c := rest.AnonymousClientConfig(admin)
	c.BearerToken = got.Status.Token
	return c, nil
}

// WriteKubeconfig writes c as a kubeconfig with one context, readable by the
// user only. The file appears whole or not at all.
func WriteKubeconfig(path string, c *rest.Config) error {
	const name = "local"
	k := clientcmdapi.NewConfig()
	k.Clusters[name] = &clientcmdapi.Cluster{
		Server:                   c.Host,
		CertificateAuthority:     c.CAFile,
		CertificateAuthorityData: c.CAData,
	}
	k.AuthInfos[name] = &clientcmdapi.AuthInfo{
		Token:                 c.BearerToken,
		ClientCertificate:     c.CertFile,
		ClientCertificateData: c.CertData,
		ClientKey:             c.KeyFile,
		ClientKeyData:         c.KeyData,
	}
	k.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name}
	k.CurrentContext = name
	if err := replace(path, *k); err != nil {
		return fmt.Errorf("kubeconfig %s: %w", path, err)
	}
	return nil
}

// replace writes k beside path and renames it over path.
func replace(path string, k clientcmdapi.Config) error {
	data, err := clientcmd.Write(k)
	if err != nil {
		return err
	}
	draft, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".draft-")
	if err != nil {
		return err
	}
	_, err = draft.Write(data)
	if closed := draft.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = os.Rename(draft.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(draft.Name()))
	}
	return nil
}

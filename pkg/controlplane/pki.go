package controlplane

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// credentialLife is the validity of every certificate. A control plane of this
// package is never upgraded in place, so that nothing rotates them.
const credentialLife = 10 * 365 * 24 * time.Hour

// ensurePKI makes the certificates and keys of the directory on its first use.
// They appear by one rename: a pki directory that exists is complete.
func ensurePKI(d layout) error {
	final := d.path("pki")
	if _, err := os.Stat(final); err == nil {
		return nil
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	draft, err := os.MkdirTemp(string(d), "pki-draft-")
	if err != nil {
		return err
	}
	if err := writePKI(draft); err != nil {
		return errors.Join(err, os.RemoveAll(draft))
	}
	return os.Rename(draft, final)
}

func writePKI(dir string) error {
	ca, err := newAuthority(dir)
	if err != nil {
		return err
	}
	serving := x509.Certificate{
		Subject:     pkix.Name{CommonName: "kube-apiserver"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(10, 0, 0, 1)},
	}
	admin := x509.Certificate{
		Subject:     pkix.Name{CommonName: "local-admin", Organization: []string{"system:masters"}},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if err := ca.issue("apiserver", serving); err != nil {
		return err
	}
	if err := ca.issue("admin", admin); err != nil {
		return err
	}
	return writeTokenKeys(dir)
}

// writeTokenKeys makes the pair that signs and verifies service account tokens.
func writeTokenKeys(dir string) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	if err := writeKey(filepath.Join(dir, "sa.key"), key); err != nil {
		return err
	}
	der, err := x509.MarshalPKIXPublicKey(key.Public())
	if err != nil {
		return err
	}
	return writePEM(filepath.Join(dir, "sa.pub"), "PUBLIC KEY", der)
}

// authority issues certificates into a directory.
type authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

func newAuthority(dir string) (*authority, error) {
	key, err := newKey()
	if err != nil {
		return nil, err
	}
	tmpl := x509.Certificate{
		Subject:               pkix.Name{CommonName: "local-control-plane-ca"},
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	a := &authority{dir: dir, cert: &tmpl, key: key}
	if err := a.sign("ca", &tmpl, key); err != nil {
		return nil, err
	}
	return a, nil
}

// issue makes a key and a leaf certificate from tmpl as NAME.key and NAME.crt.
func (a *authority) issue(name string, tmpl x509.Certificate) error {
	key, err := newKey()
	if err != nil {
		return err
	}
	tmpl.KeyUsage = x509.KeyUsageDigitalSignature
	return a.sign(name, &tmpl, key)
}

func (a *authority) sign(name string, tmpl *x509.Certificate, key crypto.Signer) error {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return err
	}
	now := time.Now()
	tmpl.SerialNumber = serial
	tmpl.NotBefore = now.Add(-time.Hour)
	tmpl.NotAfter = now.Add(credentialLife)
	der, err := x509.CreateCertificate(rand.Reader, tmpl, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("certificate %s: %w", name, err)
	}
	if err := writePEM(filepath.Join(a.dir, name+".crt"), "CERTIFICATE", der); err != nil {
		return err
	}
	return writeKey(filepath.Join(a.dir, name+".key"), key)
}

func newKey() (crypto.Signer, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func writeKey(path string, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	return writePEM(path, "PRIVATE KEY", der)
}

func writePEM(path, kind string, der []byte) error {
	return os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600)
}

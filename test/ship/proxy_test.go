// Copyright The multieni Authors.
// SPDX-License-Identifier: Apache-2.0

package ship_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// proxy is the only way to AWS: an HTTP proxy that connects to some hosts. Each is a simulated AWS by TLS.
type proxy struct {
	server    *httptest.Server
	authority *x509.Certificate
	key       *ecdsa.PrivateKey
	allowed   []string
	aws       http.Handler
	// metadata is the address of the metadata of an instance, which programs reach without the proxy.
	metadata string

	// mu guards the hosts that programs asked for, and whether the proxy connected.
	mu    sync.Mutex
	asked map[string]bool
}

func newProxy(t *testing.T, allowed []string, account string) *proxy {
	t.Helper()
	target, err := url.Parse(account)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{
		allowed: allowed, key: key, asked: map[string]bool{},
		metadata: strings.Replace(account, "://", "://i-0a10000000000000a@", 1),
	}
	p.authority = &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "proxy"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	simulated := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	p.aws = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.Host, "sts") {
			_, _ = w.Write([]byte(assumedRole))
			return
		}
		simulated.ServeHTTP(w, r)
	})
	p.server = httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.server.Close)
	return p
}

// assumedRole is an answer to AssumeRoleWithWebIdentity, which the simulated AWS does not have.
const assumedRole = `<AssumeRoleWithWebIdentityResponse xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><AssumeRoleWithWebIdentityResult>
<AssumedRoleUser><Arn>arn:aws:sts::123456789012:assumed-role/multieni/s</Arn><AssumedRoleId>A:s</AssumedRoleId></AssumedRoleUser>
<Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>b</SecretAccessKey><SessionToken>c</SessionToken><Expiration>2999-01-01T00:00:00Z</Expiration></Credentials>
</AssumeRoleWithWebIdentityResult><ResponseMetadata><RequestId>r</RequestId></ResponseMetadata></AssumeRoleWithWebIdentityResponse>`

// env is the environment of a program that reaches AWS by the proxy.
func (p *proxy) env(t *testing.T) []string {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, p.authority, p.authority, p.key.Public(), p.key)
	if err != nil {
		t.Fatal(err)
	}
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{
		"HTTPS_PROXY=" + p.server.URL, "AWS_CA_BUNDLE=" + bundle, "AWS_REGION=us-east-1", "AWS_ENDPOINT_URL=",
		"AWS_EC2_METADATA_DISABLED=false", "AWS_EC2_METADATA_SERVICE_ENDPOINT=" + p.metadata, "AWS_ACCESS_KEY_ID=simulated", "AWS_SECRET_ACCESS_KEY=simulated",
	}
}

func (p *proxy) serve(w http.ResponseWriter, r *http.Request) {
	host, _, _ := net.SplitHostPort(r.Host)
	connects := r.Method == http.MethodConnect && slices.Contains(p.allowed, host)
	p.mu.Lock()
	p.asked[r.Method+" "+host] = connects
	p.mu.Unlock()
	if !connects {
		http.Error(w, "this host does not resolve", http.StatusBadGateway)
		return
	}
	w.WriteHeader(http.StatusOK)
	connection, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		return
	}
	encrypted := tls.Server(connection, &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: p.certificate})
	_ = (&http.Server{Handler: p.aws, ReadHeaderTimeout: 10 * time.Second}).Serve(&once{connection: encrypted, closed: make(chan struct{})})
}

// certificate issues a certificate for the host that a client asks for.
func (p *proxy) certificate(hello *tls.ClientHelloInfo) (*tls.Certificate, error) {
	leaf := &x509.Certificate{SerialNumber: big.NewInt(2), DNSNames: []string{hello.ServerName}, NotAfter: p.authority.NotAfter}
	der, err := x509.CreateCertificate(rand.Reader, leaf, p.authority, p.key.Public(), p.key)
	return &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: p.key}, err
}

// connected returns the hosts to which the proxy connected, and refused the other ones that programs asked for.
func (p *proxy) connected() []string { return p.hosts(true) }
func (p *proxy) refused() []string   { return p.hosts(false) }

func (p *proxy) hosts(connected bool) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var hosts []string
	for _, asked := range slices.Sorted(maps.Keys(p.asked)) {
		if p.asked[asked] == connected {
			hosts = append(hosts, strings.TrimPrefix(asked, http.MethodConnect+" "))
		}
	}
	return hosts
}

// once is a listener of one connection, which ends with it.
type once struct {
	connection net.Conn
	accepted   sync.Once
	closed     chan struct{}
}

// Accept implements [net.Listener].
func (o *once) Accept() (net.Conn, error) {
	var c net.Conn
	o.accepted.Do(func() { c = o.connection })
	if c != nil {
		return c, nil
	}
	<-o.closed
	return nil, net.ErrClosed
}

// Close implements [net.Listener].
func (o *once) Close() error { return nil }

// Addr implements [net.Listener].
func (o *once) Addr() net.Addr { return o.connection.LocalAddr() }

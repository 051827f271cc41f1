package simulate

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"k8s.io/client-go/rest"
)

const (
	// cpuMetric is what every Go program with Prometheus metrics counts of itself, in seconds.
	cpuMetric = "process_cpu_seconds_total "
	// metricsPatience bounds one reading.
	metricsPatience = 10 * time.Second
)

// metricsClient returns a client with the administrator's certificate for servers on loopback whose own certificates
// nobody signed.
func metricsClient(admin *rest.Config) (*http.Client, error) {
	config := rest.CopyConfig(admin)
	config.TLSClientConfig = rest.TLSClientConfig{
		Insecure: true,
		CertFile: admin.CertFile, CertData: admin.CertData,
		KeyFile: admin.KeyFile, KeyData: admin.KeyData,
	}
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	client.Timeout = metricsPatience
	return client, nil
}

// cpuSeconds asks the server at an address for the CPU time that its process has used.
func cpuSeconds(ctx context.Context, client *http.Client, url string) (float64, error) {
	text, err := scrape(ctx, client, url)
	if err != nil {
		return 0, err
	}
	for line := range bytes.Lines(text) {
		if value, ok := strings.CutPrefix(string(line), cpuMetric); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("%s/metrics: no %s", url, cpuMetric)
}

// SchedulerMetrics returns the metrics of the running scheduler, in the text format of Prometheus.
func (c *Cluster) SchedulerMetrics(ctx context.Context) ([]byte, error) {
	client, err := metricsClient(c.admin)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	return scrape(ctx, client, c.schedulerURL)
}

// SchedulerProfile profiles the CPU time of the running scheduler for so many seconds, and returns the profile for go tool pprof.
func (c *Cluster) SchedulerProfile(ctx context.Context, seconds int) ([]byte, error) {
	client, err := metricsClient(c.admin)
	if err != nil {
		return nil, err
	}
	defer client.CloseIdleConnections()
	client.Timeout += time.Duration(seconds) * time.Second
	return get(ctx, client, c.schedulerURL+"/debug/pprof/profile?seconds="+strconv.Itoa(seconds))
}

// scrape reads the metrics of the server at an address.
func scrape(ctx context.Context, client *http.Client, url string) ([]byte, error) {
	return get(ctx, client, url+"/metrics")
}

func get(ctx context.Context, client *http.Client, url string) (body []byte, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return nil, err
	}
	response, err := client.Do(request)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", url, response.Status)
	}
	return io.ReadAll(response.Body)
}

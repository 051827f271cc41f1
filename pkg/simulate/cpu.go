package simulate

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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
func cpuSeconds(ctx context.Context, client *http.Client, url string) (seconds float64, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url+"/metrics", http.NoBody)
	if err != nil {
		return 0, err
	}
	response, err := client.Do(request)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, response.Body.Close()) }()
	if response.StatusCode != http.StatusOK {
		return 0, fmt.Errorf("%s/metrics: %s", url, response.Status)
	}
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		if value, ok := strings.CutPrefix(lines.Text(), cpuMetric); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, errors.Join(lines.Err(), fmt.Errorf("%s/metrics: no %s", url, cpuMetric))
}

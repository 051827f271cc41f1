package checker

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
)

// pageSize is what is asked for at a time.
const pageSize = 500

// State is what one replica says of itself.
type State struct {
	// Replica is its name in violations.
	Replica string
	Summary Summary
	Pods    []HeldPod
	Nodes   []HeldNode
	Gangs   []Gang
}

// Summary is the answer of /v1/summary.
type Summary struct {
	Synced      bool `json:"synced"`
	Leading     bool `json:"leading"`
	Nodes       int  `json:"nodes"`
	Cards       int  `json:"cards"`
	Held        int  `json:"held"`
	Free        int  `json:"free"`
	Quarantined int  `json:"quarantined"`
	Suspects    int  `json:"suspects"`
}

// HeldPod is an item of /v1/pods.
type HeldPod struct {
	UID          string       `json:"uid"`
	Pod          string       `json:"pod"`
	Node         string       `json:"node"`
	Stage        string       `json:"stage"`
	Cooling      bool         `json:"cooling"`
	Cards        []cardRecord `json:"cards"`
	UnknownCards int          `json:"unknownCards"`
}

// HeldNode is an item of /v1/nodes.
type HeldNode struct {
	Name       string   `json:"name"`
	Cards      int      `json:"cards"`
	Free       int      `json:"free"`
	Held       int      `json:"held"`
	Quarantine string   `json:"quarantine"`
	Conflicts  []string `json:"conflicts"`
	Missing    int      `json:"missing"`
}

// Gang is an item of /v1/gangs.
type Gang struct {
	Gang      string `json:"gang"`
	UID       string `json:"uid"`
	Phase     string `json:"phase"`
	MinMember int    `json:"minMember"`
	Members   int    `json:"members"`
	Held      int    `json:"held"`
	Bound     int    `json:"bound"`
	Reason    string `json:"reason"`
}

// Sweep is the answer of /v1/sweep.
type Sweep struct {
	Sweeps          int     `json:"sweeps"`
	DurationSeconds float64 `json:"durationSeconds"`
	// Last are the repairs of the last sweeps, a bounded number.
	Last []Repair `json:"last"`
}

// Repair is one item of Sweep.Last.
type Repair struct {
	Kind   string `json:"kind"`
	Pod    string `json:"pod"`
	Node   string `json:"node"`
	Detail string `json:"detail"`
}

// FetchState reads everything from the state endpoint at base, such as http://127.0.0.1:10269. The parts are not of one
// moment.
func FetchState(ctx context.Context, client *http.Client, replica, base string) (State, error) {
	s := State{Replica: replica}
	if err := fetch(ctx, client, base+"/v1/summary", &s.Summary); err != nil {
		return s, err
	}
	var err error
	if s.Pods, err = fetchAll[HeldPod](ctx, client, base+"/v1/pods"); err != nil {
		return s, err
	}
	if s.Nodes, err = fetchAll[HeldNode](ctx, client, base+"/v1/nodes"); err != nil {
		return s, err
	}
	s.Gangs, err = fetchAll[Gang](ctx, client, base+"/v1/gangs")
	return s, err
}

// FetchSummary reads /v1/summary alone.
func FetchSummary(ctx context.Context, client *http.Client, base string) (Summary, error) {
	var s Summary
	err := fetch(ctx, client, base+"/v1/summary", &s)
	return s, err
}

// FetchSweep reads /v1/sweep.
func FetchSweep(ctx context.Context, client *http.Client, base string) (Sweep, error) {
	var s Sweep
	err := fetch(ctx, client, base+"/v1/sweep", &s)
	return s, err
}

// fetchAll reads all pages of a list.
func fetchAll[T any](ctx context.Context, client *http.Client, at string) ([]T, error) {
	var all []T
	next := ""
	for {
		var page struct {
			Items    []T    `json:"items"`
			Continue string `json:"continue"`
		}
		where := fmt.Sprintf("%s?limit=%d&continue=%s", at, pageSize, url.QueryEscape(next))
		if err := fetch(ctx, client, where, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		switch page.Continue {
		case "":
			return all, nil
		case next:
			return nil, fmt.Errorf("%s: continues with itself", where)
		}
		next = page.Continue
	}
}

func fetch(ctx context.Context, client *http.Client, at string, into any) (err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, at, http.NoBody)
	if err != nil {
		return err
	}
	response, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() {
		if closed := response.Body.Close(); err == nil {
			err = closed
		}
	}()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s", at, response.Status)
	}
	if err := json.NewDecoder(response.Body).Decode(into); err != nil {
		return fmt.Errorf("%s: %w", at, err)
	}
	return nil
}

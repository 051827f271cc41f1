package manifests

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/gputopology/gpu-topology-scheduler/pkg/apis/config"
)

const docs = "../../docs"

func gangsText(t *testing.T) string {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(docs, "gangs.md"))
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

// anchor is what a heading is called in links.
func anchor(heading string) string {
	kept := regexp.MustCompile(`[^a-z0-9 -]`).ReplaceAllString(strings.ToLower(heading), "")
	return strings.ReplaceAll(kept, " ", "-")
}

func TestGangsLinksLeadSomewhere(t *testing.T) {
	content := gangsText(t)
	headings := map[string]bool{}
	for _, match := range regexp.MustCompile(`(?m)^##+ (.+)$`).FindAllStringSubmatch(content, -1) {
		headings[anchor(match[1])] = true
	}
	linked := map[string]bool{}
	for _, match := range regexp.MustCompile(`\]\(([^)]+)\)`).FindAllStringSubmatch(content, -1) {
		link, err := url.Parse(match[1])
		if err != nil {
			t.Errorf("link %q: %v", match[1], err)
			continue
		}
		switch {
		case link.Path == "" && !headings[link.Fragment]:
			t.Errorf("link %q: no such heading", match[1])
		case link.Path != "":
			if _, err := os.Stat(filepath.Join(docs, link.Path)); err != nil {
				t.Errorf("link %q: %v", match[1], err)
			}
			linked[filepath.Base(link.Path)] = true
		}
	}
	for file := range examples() {
		if !linked[file] {
			t.Errorf("docs/gangs.md does not link %s", file)
		}
	}
}

// defaults are those of CoschedulingArgs as a person writes them: 1m, not 1m0s.
func defaults(t *testing.T) map[string]string {
	t.Helper()
	args := &config.CoschedulingArgs{}
	config.SetCoschedulingDefaults(args)
	value := reflect.ValueOf(args).Elem()
	found := map[string]string{}
	for i := range value.NumField() {
		key, _, _ := strings.Cut(value.Type().Field(i).Tag.Get("json"), ",")
		if key == "" {
			continue // kind and apiVersion
		}
		item := value.Field(i)
		if item.Kind() == reflect.Pointer {
			item = item.Elem()
		}
		shown := fmt.Sprint(item.Interface())
		if d, ok := item.Interface().(metav1.Duration); ok {
			shown = regexp.MustCompile(`([hm])0[ms](0s)?$`).ReplaceAllString(d.Duration.String(), "$1")
		}
		found[key] = shown
	}
	return found
}

func TestGangsTableOfArgumentsIsTheTypes(t *testing.T) {
	_, section, found := strings.Cut(gangsText(t), "\n## Configure\n")
	if !found {
		t.Fatal("docs/gangs.md has no section Configure")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	got := map[string]string{}
	for _, match := range regexp.MustCompile("(?m)^\\| `(\\w+)` \\| `(\\w+)` \\|").FindAllStringSubmatch(section, -1) {
		got[match[1]] = match[2]
	}
	if diff := cmp.Diff(defaults(t), got); diff != "" {
		t.Errorf("fields and defaults of CoschedulingArgs (-type +docs/gangs.md):\n%s", diff)
	}
}

// The configuration in the docs that has this scheduler answer to another name as well.
func TestConfigMayHaveASecondProfile(t *testing.T) {
	const second = "scheduler-plugins-scheduler"
	if !strings.Contains(gangsText(t), "schedulerName: "+second) {
		t.Errorf("docs/gangs.md has no profile %s", second)
	}
	content := string(shippedText(t))
	for _, key := range []string{"plugins", "pluginConfig"} {
		line := "\n    " + key + ":\n"
		if !strings.Contains(content, line) {
			t.Fatalf("the shipped configuration has no line %q", line)
		}
		content = strings.Replace(content, line, "\n    "+key+": &"+key+"\n", 1)
	}
	content += "  - schedulerName: " + second + "\n    plugins: *plugins\n    pluginConfig: *pluginConfig\n"
	decoded, err := decode([]byte(content))
	if err != nil {
		t.Fatal(err)
	}
	last := decoded.Profiles[len(decoded.Profiles)-1]
	if last.SchedulerName != second {
		t.Fatalf("the last of %d profiles is %s, want %s", len(decoded.Profiles), last.SchedulerName, second)
	}
	last.SchedulerName = decoded.Profiles[0].SchedulerName
	if diff := cmp.Diff(decoded.Profiles[0], last); diff != "" {
		t.Errorf("profiles differ by more than their name (-first +last):\n%s", diff)
	}
}

func TestGangsNamesEveryPhaseAndPolicy(t *testing.T) {
	content := gangsText(t)
	words := map[string][]string{
		"phase":          {"Pending", "PreScheduling", "Scheduling", "Scheduled", "Running", "Finished", "Failed"},
		"on-member-loss": {"Replace", "Keep", "Evict"},
		"status":         {string(config.StatusManaged), string(config.StatusExternal)},
	}
	for _, kind := range slices.Sorted(maps.Keys(words)) {
		for _, word := range words[kind] {
			if !strings.Contains(content, "`"+word+"`") && !strings.Contains(content, "`status: "+word+"`") {
				t.Errorf("docs/gangs.md does not explain %s %s", kind, word)
			}
		}
	}
}

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/releaseutil"
	"sigs.k8s.io/yaml"
)

// rendering is a chart as helm renders it for one file of values, without a server.
type rendering struct {
	// Error of helm, in place of the rest.
	Error string `json:"error,omitempty"`
	// Objects in the order in which helm installs them.
	Objects []map[string]any `json:"objects,omitempty"`
	// Hooks, by their names.
	Hooks []string `json:"hooks,omitempty"`
	Notes string   `json:"notes,omitempty"`
}

// render prints a chart for each of these files of values, as a JSON list.
func render(ctx context.Context, folder, release, namespace string, files []string) error {
	renderings := []rendering{}
	for _, file := range files {
		one, err := renderOne(ctx, folder, release, namespace, file)
		if err != nil {
			one = rendering{Error: err.Error()}
		}
		renderings = append(renderings, one)
	}
	return json.NewEncoder(os.Stdout).Encode(renderings)
}

func renderOne(ctx context.Context, folder, release, namespace, file string) (rendering, error) {
	chart, err := loader.Load(folder)
	if err != nil {
		return rendering{}, err
	}
	values, err := chartutil.ReadValuesFile(file)
	if err != nil {
		return rendering{}, err
	}
	install := action.NewInstall(new(action.Configuration))
	install.ReleaseName, install.Namespace, install.Timeout = release, namespace, time.Minute
	install.DryRun, install.ClientOnly = true, true
	// Without a server it would take the oldest one that it knows.
	install.KubeVersion = &chartutil.KubeVersion{Version: "v1.36.0", Major: "1", Minor: "36"}
	rendered, err := install.RunWithContext(ctx, chart, values)
	if err != nil {
		return rendering{}, err
	}
	one := rendering{Notes: rendered.Info.Notes}
	for _, hook := range rendered.Hooks {
		one.Hooks = append(one.Hooks, hook.Name)
	}
	documents := releaseutil.SplitManifests(rendered.Manifest)
	for n := range len(documents) {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(documents[fmt.Sprintf("manifest-%d", n)]), &object); err != nil {
			return rendering{}, err
		}
		if len(object) > 0 {
			one.Objects = append(one.Objects, object)
		}
	}
	return one, nil
}

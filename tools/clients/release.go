package main

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"k8s.io/cli-runtime/pkg/genericclioptions"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
)

// releaseOf does to a release what its arguments say, waits as helm does with --wait, and prints the revision that is
// current then: install NAME CHART VALUES, upgrade NAME CHART VALUES, rollback NAME REVISION, uninstall NAME.
func releaseOf(ctx context.Context, kubeconfig, namespace, home string, arguments []string) error {
	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &kubeconfig, &namespace
	cached := filepath.Join(home, "helm-cache")
	flags.CacheDir = &cached
	configuration := new(action.Configuration)
	if err := configuration.Init(flags, namespace, "secret", func(string, ...any) {}); err != nil {
		return err
	}
	verb, name := arguments[0], arguments[1]
	var current *release.Release
	var err error
	switch {
	case verb == "install" && len(arguments) == 4:
		install := action.NewInstall(configuration)
		install.ReleaseName, install.Namespace, install.CreateNamespace = name, namespace, true
		install.Wait, install.Timeout = true, time.Minute
		made, values, failed := chartWith(arguments[2], arguments[3])
		if failed != nil {
			return failed
		}
		current, err = install.RunWithContext(ctx, made, values)
	case verb == "upgrade" && len(arguments) == 4:
		upgrade := action.NewUpgrade(configuration)
		upgrade.Namespace, upgrade.Wait, upgrade.Timeout = namespace, true, time.Minute
		made, values, failed := chartWith(arguments[2], arguments[3])
		if failed != nil {
			return failed
		}
		current, err = upgrade.RunWithContext(ctx, name, made, values)
	case verb == "rollback" && len(arguments) == 3:
		back := action.NewRollback(configuration)
		back.Wait, back.Timeout = true, time.Minute
		if _, err := fmt.Sscanf(arguments[2], "%d", &back.Version); err != nil {
			return fmt.Errorf("revision %q: %w", arguments[2], err)
		}
		if err := back.Run(name); err != nil {
			return err
		}
		current, err = action.NewGet(configuration).Run(name)
	case verb == "uninstall" && len(arguments) == 2:
		uninstall := action.NewUninstall(configuration)
		uninstall.Wait, uninstall.Timeout = true, time.Minute
		gone, failed := uninstall.Run(name)
		if failed != nil {
			return failed
		}
		current = gone.Release
	default:
		return fmt.Errorf("release %v: an unknown verb, or other arguments than it takes", arguments)
	}
	if err != nil {
		return err
	}
	fmt.Printf("revision %d, %s\n", current.Version, current.Info.Status)
	return nil
}

// chartWith loads a chart from its folder, and values from their file.
func chartWith(folder, file string) (*chart.Chart, chartutil.Values, error) {
	loaded, err := loader.Load(folder)
	if err != nil {
		return nil, nil, err
	}
	values, err := chartutil.ReadValuesFile(file)
	return loaded, values, err
}

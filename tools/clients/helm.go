package main

import (
	"context"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
)

//go:embed all:chart
var chartFiles embed.FS

// helmReleases installs, upgrades, rolls back and uninstalls the chart beside this file, through helm 3 as a library.
func helmReleases(ctx context.Context, w *world) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		return err
	}
	objects, err := dynamic.NewForConfig(w.config)
	if err != nil {
		return err
	}
	given := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "given", Namespace: w.namespace}, Data: map[string]string{"who": "a user"}}
	if _, err := client.CoreV1().ConfigMaps(w.namespace).Create(ctx, given, metav1.CreateOptions{}); err != nil {
		return err
	}
	// helm waits for its hooks, and no controller runs Jobs on a control plane.
	go finishJobs(ctx, client, w)

	flags := genericclioptions.NewConfigFlags(false)
	flags.KubeConfig, flags.Namespace = &w.kubeconfig, &w.namespace
	cached := filepath.Join(w.home, "helm-cache")
	flags.CacheDir = &cached
	configuration := new(action.Configuration)
	if err := configuration.Init(flags, w.namespace, "secret", func(string, ...any) {}); err != nil {
		return err
	}
	tell := func(what string, r *release.Release, err error) error {
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		w.say("%s: revision %d, %s, %q", what, r.Version, r.Info.Status, r.Info.Description)
		return look(ctx, w, client, objects)
	}

	install := action.NewInstall(configuration)
	install.ReleaseName, install.Namespace, install.Timeout = "shop", w.namespace, time.Minute
	first, err := theChart("0.1.0", w.namespace)
	if err != nil {
		return err
	}
	installed, err := install.RunWithContext(ctx, first, map[string]any{"replicas": 2})
	if err := tell("installed", installed, err); err != nil {
		return err
	}
	w.say("notes: %s", strings.TrimSpace(installed.Info.Notes))
	again := action.NewInstall(configuration)
	again.ReleaseName, again.Namespace = "shop", w.namespace
	_, err = again.RunWithContext(ctx, first, nil)
	w.say("installed again: %v", err)

	upgrade := action.NewUpgrade(configuration)
	upgrade.Namespace, upgrade.Timeout = w.namespace, time.Minute
	second, err := theChart("0.2.0", w.namespace)
	if err != nil {
		return err
	}
	upgraded, err := upgrade.RunWithContext(ctx, "shop", second, map[string]any{"replicas": 3, "image": "shop:2", "service": false})
	if err := tell("upgraded", upgraded, err); err != nil {
		return err
	}

	// A user changes a field that the chart sets and one that it does not.
	changed := `{"metadata":{"labels":{"by":"hand"}},"spec":{"replicas":9}}`
	if _, err := client.AppsV1().Deployments(w.namespace).Patch(ctx, "shop", "application/merge-patch+json", []byte(changed), metav1.PatchOptions{}); err != nil {
		return err
	}
	back := action.NewRollback(configuration)
	back.Version, back.Timeout = 1, time.Minute
	if err := back.Run("shop"); err != nil {
		return fmt.Errorf("rollback: %w", err)
	}
	current, err := action.NewGet(configuration).Run("shop")
	if err := tell("rolled back", current, err); err != nil {
		return err
	}

	broken := action.NewUpgrade(configuration)
	broken.Namespace, broken.Timeout = w.namespace, time.Minute
	_, err = broken.RunWithContext(ctx, "shop", second, map[string]any{"replicas": -1})
	w.say("a broken upgrade is refused: %t", err != nil && strings.Contains(err.Error(), "must be greater than or equal to 0"))
	history, err := action.NewHistory(configuration).Run("shop")
	if err != nil {
		return err
	}
	for _, r := range history {
		w.say("history: %d %s %s", r.Version, r.Chart.Metadata.Version, r.Info.Status)
	}

	uninstall := action.NewUninstall(configuration)
	uninstall.Timeout, uninstall.Wait = time.Minute, true
	gone, err := uninstall.Run("shop")
	if err != nil {
		return fmt.Errorf("uninstall: %w", err)
	}
	w.say("uninstalled: %s", gone.Release.Info.Status)
	if err := look(ctx, w, client, objects); err != nil {
		return err
	}
	_, err = action.NewStatus(configuration).Run("shop")
	w.say("status: %v", err)
	return nil
}

// theChart loads the chart in this version; the group of its CRD is unique to the run.
func theChart(version, namespace string) (*chart.Chart, error) {
	var files []*loader.BufferedFile
	err := fs.WalkDir(chartFiles, "chart", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := chartFiles.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, "chart/")
		// CRDs are no templates, and cluster-scoped.
		text := strings.ReplaceAll(string(data), "shop.example.com", namespace+".example.com")
		if name == "Chart.yaml" {
			text = strings.ReplaceAll(text, "version: 0.1.0", "version: "+version)
		}
		files = append(files, &loader.BufferedFile{Name: name, Data: []byte(text)})
		return nil
	})
	if err != nil {
		return nil, err
	}
	return loader.LoadFiles(files)
}

// look prints the objects of the chart.
func look(ctx context.Context, w *world, client kubernetes.Interface, objects dynamic.Interface) error {
	secrets, err := client.CoreV1().Secrets(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "owner=helm,name=shop"})
	if err != nil {
		return err
	}
	for _, s := range secrets.Items {
		w.say("  secret %s of type %s: version %s %s", s.Name, s.Type, s.Labels["version"], s.Labels["status"])
	}
	found, err := client.CoreV1().ConfigMaps(w.namespace).List(ctx, metav1.ListOptions{LabelSelector: "app.kubernetes.io/managed-by=Helm"})
	if err != nil {
		return err
	}
	for _, m := range found.Items {
		var data []string
		for _, key := range slices.Sorted(maps.Keys(m.Data)) {
			data = append(data, key+"="+m.Data[key])
		}
		w.say("  configmap %s: %s", m.Name, strings.Join(data, ", "))
	}
	deployment, err := client.AppsV1().Deployments(w.namespace).Get(ctx, "shop", metav1.GetOptions{})
	switch {
	case err == nil:
		w.say("  deployment: replicas %d, image %s, by hand %q", *deployment.Spec.Replicas, deployment.Spec.Template.Spec.Containers[0].Image, deployment.Labels["by"])
	case !apierrors.IsNotFound(err):
		return err
	}
	services, err := client.CoreV1().Services(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	jobs, err := client.BatchV1().Jobs(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	w.say("  services %d, jobs %d", len(services.Items), len(jobs.Items))
	gadgets := schema.GroupVersionResource{Group: w.namespace + ".example.com", Version: "v1", Resource: "gadgets"}
	list, err := objects.Resource(gadgets).Namespace(w.namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	for _, gadget := range list.Items {
		w.say("  gadget %s: %v", gadget.GetName(), gadget.Object["spec"])
	}
	w.say("  gadgets %d", len(list.Items))
	return nil
}

// finishJobs completes Jobs as if their pods had succeeded.
func finishJobs(ctx context.Context, client kubernetes.Interface, w *world) {
	jobs := client.BatchV1().Jobs(w.namespace)
	for {
		events, err := jobs.Watch(ctx, metav1.ListOptions{})
		if err != nil {
			if ctx.Err() != nil {
				return
			}
			continue
		}
		for event := range events.ResultChan() {
			job, is := event.Object.(*batchv1.Job)
			if !is || event.Type == "DELETED" || job.Status.CompletionTime != nil {
				continue
			}
			now := metav1.Now()
			condition := func(kind batchv1.JobConditionType) batchv1.JobCondition {
				return batchv1.JobCondition{Type: kind, Status: corev1.ConditionTrue, LastProbeTime: now, LastTransitionTime: now, Reason: "CompletionsReached"}
			}
			job.Status = batchv1.JobStatus{
				StartTime: &now, CompletionTime: &now, Succeeded: 1,
				Conditions: []batchv1.JobCondition{condition(batchv1.JobSuccessCriteriaMet), condition(batchv1.JobComplete)},
			}
			if _, err := jobs.UpdateStatus(ctx, job, metav1.UpdateOptions{}); err != nil {
				w.say("the job %s can't be finished: %v", job.Name, err)
			}
		}
	}
}

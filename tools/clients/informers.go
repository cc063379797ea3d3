package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
)

// Number of objects before the informers start.
const before = 60

// sharedInformers runs informers over objects and over metadata, through changes and a broken connection.
// KUBE_FEATURE_WatchListClient decides if they begin with a watch or a list, as in every program with client-go.
func sharedInformers(ctx context.Context, w *world) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := kubernetes.NewForConfig(w.protobuf())
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(w.namespace)
	for i := range before {
		object := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%02d", i), Labels: map[string]string{"colour": []string{"red", "blue"}[i%2]}},
			Data:       map[string]string{"n": fmt.Sprint(i)},
		}
		if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	path := "/api/v1/namespaces/" + w.namespace
	w.wire.since(path)

	own := informers.WithNamespace(w.namespace)
	all := informers.NewSharedInformerFactoryWithOptions(client, 0, own)
	red := informers.NewSharedInformerFactoryWithOptions(client, 0, own,
		informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = "colour=red" }))
	partial, err := metadata.NewForConfig(w.config)
	if err != nil {
		return err
	}
	meta := metadatainformer.NewFilteredSharedInformerFactory(partial, 0, w.namespace, nil)

	whole := all.Core().V1().ConfigMaps().Informer()
	err = whole.AddIndexers(cache.Indexers{"colour": func(object any) ([]string, error) {
		return []string{object.(*corev1.ConfigMap).Labels["colour"]}, nil
	}})
	if err != nil {
		return err
	}
	heard := map[string]*hearing{
		"all":  hear(whole),
		"red":  hear(red.Core().V1().ConfigMaps().Informer()),
		"meta": hear(meta.ForResource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Informer()),
	}
	secrets := all.Core().V1().Secrets()
	secrets.Informer()
	all.Start(ctx.Done())
	red.Start(ctx.Done())
	meta.Start(ctx.Done())
	for kind, synced := range all.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%v did not sync", kind)
		}
	}
	red.WaitForCacheSync(ctx.Done())
	meta.WaitForCacheSync(ctx.Done())
	for _, name := range []string{"all", "meta", "red"} {
		if err := heard[name].synced(ctx); err != nil {
			return err
		}
		w.say("%s: %s", name, summary(heard[name].take()))
	}
	if err := w.wire.opened(ctx, 4); err != nil {
		return err
	}
	for _, asked := range w.wire.since(path) {
		w.say("asked: %s", asked)
	}
	blue, err := whole.GetIndexer().ByIndex("colour", "blue")
	if err != nil {
		return err
	}
	w.say("blue by index: %d", len(blue))
	listed, err := secrets.Lister().Secrets(w.namespace).List(labels.Everything())
	if err != nil {
		return err
	}
	w.say("secrets: %d", len(listed))

	// Each informer gets its changes; an object that no longer matches the selector is deleted from its cache.
	patch := func(name, patch string) func() error {
		return func() error {
			_, err := maps.Patch(ctx, name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
			return err
		}
	}
	steps := []struct {
		what string
		do   func() error
		want map[string]int
	}{
		{"a red one is made", func() error {
			_, err := maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "new", Labels: map[string]string{"colour": "red"}}}, metav1.CreateOptions{})
			return err
		}, map[string]int{"all": 1, "red": 1, "meta": 1}},
		{"it turns blue", patch("new", `{"metadata":{"labels":{"colour":"blue"}}}`), map[string]int{"all": 1, "red": 1, "meta": 1}},
		{"blue data change", patch("new", `{"data":{"k":"v"}}`), map[string]int{"all": 1, "meta": 1}},
		{"it turns red", patch("new", `{"metadata":{"labels":{"colour":"red"}}}`), map[string]int{"all": 1, "red": 1, "meta": 1}},
		{"nothing changes", patch("new", `{"data":{"k":"v"}}`), nil},
		{"it is deleted", func() error { return maps.Delete(ctx, "new", metav1.DeleteOptions{}) }, map[string]int{"all": 1, "red": 1, "meta": 1}},
	}
	for _, step := range steps {
		if err := step.do(); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		for _, name := range []string{"all", "meta", "red"} {
			events, err := heard[name].wait(ctx, step.want[name])
			if err != nil {
				return fmt.Errorf("%s: %s: %w", step.what, name, err)
			}
			w.say("%s: %s: %s", step.what, name, strings.Join(events, ", "))
		}
	}

	// A broken connection loses and repeats no event, and causes no new list.
	w.wire.since(path)
	w.say("cut: %d watches", w.wire.breakAll())
	if err := patch("m00", `{"data":{"n":"changed"}}`)(); err != nil {
		return err
	}
	if err := maps.Delete(ctx, "m02", metav1.DeleteOptions{}); err != nil {
		return err
	}
	for _, name := range []string{"all", "meta", "red"} {
		events, err := heard[name].wait(ctx, 2)
		if err != nil {
			return fmt.Errorf("after the cut: %s: %w", name, err)
		}
		w.say("after the cut: %s: %s", name, strings.Join(events, ", "))
	}
	for _, asked := range w.wire.since(path + "/configmaps") {
		w.say("asked again: %s", strings.TrimSpace(strings.TrimPrefix(asked, ",")))
	}

	// The final cache equals a list.
	if err := maps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "colour=blue"}); err != nil {
		return err
	}
	if _, err := heard["all"].wait(ctx, before/2); err != nil {
		return err
	}
	list, err := maps.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	var there []string
	for _, item := range list.Items {
		there = append(there, item.Name+"@"+item.ResourceVersion)
	}
	return until(ctx, "the cache equals a list", func() (bool, error) {
		var cached []string
		for _, object := range whole.GetStore().List() {
			item := object.(*corev1.ConfigMap)
			cached = append(cached, item.Name+"@"+item.ResourceVersion)
		}
		slices.Sort(cached)
		slices.Sort(there)
		if slices.Equal(cached, there) {
			w.say("the cache equals a list: %d", len(there))
			return true, nil
		}
		return false, nil
	})
}

// hearing is an event of an informer's handler.
type hearing struct {
	events       chan string
	registration cache.ResourceEventHandlerRegistration
}

func hear(informer cache.SharedIndexInformer) *hearing {
	h := &hearing{events: make(chan string, 1000)}
	name := func(object any) string {
		if gone, is := object.(cache.DeletedFinalStateUnknown); is {
			return gone.Key + " (seen late)"
		}
		accessor, err := meta.Accessor(object)
		if err != nil {
			return err.Error()
		}
		return accessor.GetName()
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { h.events <- "added " + name(object) },
		UpdateFunc: func(_, object any) { h.events <- "updated " + name(object) },
		DeleteFunc: func(object any) { h.events <- "deleted " + name(object) },
	})
	if err != nil {
		panic(err)
	}
	h.registration = registration
	return h
}

func (h *hearing) synced(ctx context.Context) error {
	return until(ctx, "the handler has heard of all", func() (bool, error) { return h.registration.HasSynced(), nil })
}

func (h *hearing) take() []string {
	var events []string
	for {
		select {
		case event := <-h.events:
			events = append(events, event)
		default:
			return events
		}
	}
}

// wait takes exactly n events; a surplus event appears in the next wait.
func (h *hearing) wait(ctx context.Context, n int) ([]string, error) {
	var events []string
	for len(events) < n {
		select {
		case event := <-h.events:
			events = append(events, event)
		case <-ctx.Done():
			return nil, fmt.Errorf("only %d of %d events: %v", len(events), n, events)
		case <-time.After(20 * time.Second):
			return nil, fmt.Errorf("only %d of %d events: %v", len(events), n, events)
		}
	}
	return events, nil
}

// until takes events up to this one.
func (h *hearing) until(ctx context.Context, last string) ([]string, error) {
	var events []string
	for !slices.Contains(events, last) {
		select {
		case event := <-h.events:
			events = append(events, event)
		case <-ctx.Done():
			return nil, fmt.Errorf("no %q after %v", last, events)
		}
	}
	return events, nil
}

// summary counts by the event's verb.
func summary(events []string) string {
	counts := map[string]int{}
	for _, event := range events {
		verb, _, _ := strings.Cut(event, " ")
		counts[verb]++
	}
	return fmt.Sprint(counts)
}

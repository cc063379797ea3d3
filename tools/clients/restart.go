package main

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
)

// followRestarts runs an informer while the test restarts the server and writes. Each line on stdin names a
// ConfigMap: once the informer has it, and its cache equals a list, events and requests since the last line are printed.
func followRestarts(ctx context.Context, w *world) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	client, err := kubernetes.NewForConfig(w.protobuf())
	if err != nil {
		return err
	}
	maps := client.CoreV1().ConfigMaps(w.namespace)
	for i := range before {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("m%02d", i)}}
		if _, err := maps.Create(ctx, object, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	path := "/api/v1/namespaces/" + w.namespace + "/configmaps"
	w.wire.since(path)
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithNamespace(w.namespace))
	informer := factory.Core().V1().ConfigMaps().Informer()
	heard := hear(informer)
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	if err := heard.synced(ctx); err != nil {
		return err
	}
	w.say("synced: %s", summary(heard.take()))
	if err := w.wire.opened(ctx, 1); err != nil {
		return err
	}
	w.say("asked: %s", ways(w.wire.since(path)))

	lines := bufio.NewScanner(os.Stdin)
	for lines.Scan() {
		name := lines.Text()
		err := until(ctx, "the informer has "+name, func() (bool, error) {
			_, there, err := informer.GetStore().GetByKey(w.namespace + "/" + name)
			return there, err
		})
		if err != nil {
			return err
		}
		asked := w.wire.since(path)
		list, err := maps.List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		var there []string
		for _, item := range list.Items {
			there = append(there, item.Name+"@"+item.ResourceVersion)
		}
		slices.Sort(there)
		err = until(ctx, "the cache equals a list", func() (bool, error) {
			var cached []string
			for _, object := range informer.GetStore().List() {
				item := object.(*corev1.ConfigMap)
				cached = append(cached, item.Name+"@"+item.ResourceVersion)
			}
			slices.Sort(cached)
			return slices.Equal(cached, there), nil
		})
		if err != nil {
			return err
		}
		w.wire.since(path)
		// The cache is ahead of the handlers.
		events, err := heard.until(ctx, "added "+name)
		if err != nil {
			return err
		}
		w.say("heard: %s", strings.Join(events, ", "))
		w.say("asked: %s", ways(asked))
	}
	return lines.Err()
}

// ways are the kinds of requests for one resource, without its name.
func ways(asked []string) string {
	for i := range asked {
		asked[i] = strings.TrimPrefix(asked[i], ", ")
	}
	return strings.Join(asked, "; ")
}

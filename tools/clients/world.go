package main

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// world is the server with recorded requests.
type world struct {
	config     *rest.Config
	kubeconfig string
	namespace  string
	home       string
	wire       *wire
	printing   sync.Mutex
}

func newWorld(kubeconfig, namespace, home string) (*world, error) {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return nil, err
	}
	config.UserAgent = "clients"
	// No client-side rate limit.
	config.QPS, config.Burst = 500, 1000
	w := &world{config: config, kubeconfig: kubeconfig, namespace: namespace, home: home, wire: &wire{}}
	config.Wrap(w.wire.wrap)
	return w, nil
}

// protobuf is the content type that Go programs request for built-in kinds; a server may answer JSON.
func (w *world) protobuf() *rest.Config {
	config := rest.CopyConfig(w.config)
	config.ContentType = "application/vnd.kubernetes.protobuf"
	config.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	return config
}

// begin creates the namespace and waits for its default contents.
func (w *world) begin(ctx context.Context) error {
	client, err := kubernetes.NewForConfig(w.protobuf())
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}}
	if _, err := client.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	return until(ctx, "the default account", func() (bool, error) {
		_, err := client.CoreV1().ServiceAccounts(w.namespace).Get(ctx, "default", metav1.GetOptions{})
		return err == nil, ignoreNotFound(err)
	})
}

// say prints a line, with the random namespace masked.
func (w *world) say(format string, args ...any) {
	w.printing.Lock()
	defer w.printing.Unlock()
	fmt.Println(strings.ReplaceAll(fmt.Sprintf(format, args...), w.namespace, "$ns"))
}

// until polls until the condition holds.
func until(ctx context.Context, what string, look func() (bool, error)) error {
	for {
		so, err := look()
		if err != nil {
			return fmt.Errorf("%s: %w", what, err)
		}
		if so {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: not so in time", what)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

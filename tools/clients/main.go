// Command clients does with an API server what programs do that are written with client-go, controller-runtime and helm, and
// prints what it saw: one line for each thing, the same on every server that behaves as a kube-apiserver does. The test
// `clients` of ironclad-testkit runs it against the embedded server and a real one and compares the lines.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
)

// No server that works takes longer for all of a command.
const deadline = 100 * time.Second

var commands = map[string]func(context.Context, *world) error{
	"informers": sharedInformers,
	"dynamic":   dynamicClient,
	"leader":    leaderElection,
	"apply":     serverSideApply,
	"manager":   controllerManager,
	"helm":      helmReleases,
	"restart":   followRestarts,
}

func main() {
	// A set of its own: libraries have put flags of theirs into the common one.
	flags := flag.NewFlagSet("clients", flag.ExitOnError)
	kubeconfig := flags.String("kubeconfig", "", "the server")
	namespace := flags.String("namespace", "", "a namespace that does not exist yet; all that is made is in it, or named after it")
	home := flags.String("home", "", "a directory for files that come and go")
	if err := flags.Parse(os.Args[1:]); err != nil {
		os.Exit(2)
	}
	command, known := commands[flags.Arg(0)]
	if !known || *kubeconfig == "" || *namespace == "" || *home == "" || flags.NArg() != 1 {
		fmt.Fprintln(os.Stderr, "usage: clients --kubeconfig FILE --namespace NAME --home DIR informers|dynamic|leader|apply|manager|helm|restart")
		os.Exit(2)
	}
	// What the libraries complain of belongs to stderr, where the test shows it if a command fails.
	klog.LogToStderr(true)
	ctrllog.SetLogger(logr.Discard())

	ctx, cancel := context.WithTimeout(context.Background(), deadline)
	defer cancel()
	world, err := newWorld(*kubeconfig, *namespace, *home)
	if err == nil {
		err = world.begin(ctx)
	}
	if err == nil {
		err = command(ctx, world)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "error: %v\n", err)
		os.Exit(1)
	}
}

//go:build tools

// Package tools names the program that gives the nodes and pods of a test member their life.
package tools

import _ "sigs.k8s.io/kwok/cmd/kwok"

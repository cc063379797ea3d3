package main

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"gomodules.xyz/jsonpatch/v2"
)

// Name of the file of the configuration below home.
const webhookFile = "webhook.json"

// Longest body that is read.
const bodyMax = 4 << 20

// serveInterpreter is an interpreter webhook that answers as the handler of Karmada's SDK does. It writes its
// ResourceInterpreterWebhookConfiguration to home, prints a line that starts with `ready`, and serves until it is ended.
func serveInterpreter(ctx context.Context, home string) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	authority, certificate, err := makeCertificate()
	if err != nil {
		return err
	}
	path := filepath.Join(home, webhookFile)
	configuration, err := json.MarshalIndent(webhookConfiguration(listener.Addr().String(), authority), "", "  ")
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, configuration, 0o600); err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/interpret", interpreterHandler(interpretWorkload))
	server := &http.Server{
		Handler:           mux,
		TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{certificate}},
		ReadHeaderTimeout: 5 * time.Second,
	}
	fmt.Printf("ready: %s\n", path)
	context.AfterFunc(ctx, func() { _ = server.Close() })
	if err := server.ServeTLS(listener, "", ""); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// webhookConfiguration registers the webhook for the kinds of workloads.go.
func webhookConfiguration(address string, authority []byte) map[string]any {
	rule := func(kind string, operations ...string) map[string]any {
		return map[string]any{
			"operations":  operations,
			"apiGroups":   []string{"workload.example.io"},
			"apiVersions": []string{"v1alpha1"},
			"kinds":       []string{kind},
		}
	}
	return map[string]any{
		"apiVersion": contextVersion,
		"kind":       "ResourceInterpreterWebhookConfiguration",
		"metadata":   map[string]any{"name": "workloads"},
		"webhooks": []map[string]any{{
			"name": "workloads.example.io",
			"clientConfig": map[string]any{
				"url":      "https://" + address + "/interpret",
				"caBundle": authority,
			},
			"rules": []map[string]any{
				rule("Workload", "InterpretReplica", "ReviseReplica", "Retain", "AggregateStatus", "InterpretStatus",
					"InterpretHealth", "InterpretDependency"),
				rule("Ensemble", "InterpretComponent"),
			},
			"timeoutSeconds":             5,
			"interpreterContextVersions": []string{"v1alpha1"},
		}},
	}
}

// interpreterHandler reads the request and writes the response as the SDK's handler does: an answer has neither
// apiVersion nor kind nor a content type of its own, its status is always 200, a request that cannot be read is
// answered without uid, and a response has a status with a code even if it is successful.
func interpreterHandler(handle func(*interpreterRequest) interpreterResponse) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, err := readRequest(r)
		response := errored(http.StatusBadRequest, err)
		if err == nil {
			response = handle(request)
			response.UID = request.UID
			if response.Status == nil {
				response.Status = &requestStatus{}
			}
			if response.Status.Code == 0 {
				response.Status.Code = http.StatusOK
			}
			fmt.Fprintf(os.Stderr, "%s %s/%s: %v %s\n", request.Operation, request.Namespace, request.Name,
				response.Successful, response.Status.Message)
		} else {
			fmt.Fprintf(os.Stderr, "unreadable request: %v\n", err)
		}
		if err := json.NewEncoder(w).Encode(interpreterContext{Response: &response}); err != nil {
			fmt.Fprintf(os.Stderr, "unwritten answer: %v\n", err)
		}
	})
}

// readRequest decodes a request. Unlike the SDK it refuses fields that Karmada does not publish, so that the test
// finds a caller that sends more.
func readRequest(r *http.Request) (*interpreterRequest, error) {
	if given := r.Header.Get("Content-Type"); given != "application/json" {
		return nil, fmt.Errorf("contentType=%s, expected application/json", given)
	}
	body, err := io.ReadAll(io.LimitReader(r.Body, bodyMax))
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(body))
	decoder.DisallowUnknownFields()
	var context interpreterContext
	if err := decoder.Decode(&context); err != nil {
		return nil, err
	}
	if context.APIVersion != contextVersion || context.Kind != contextKind {
		return nil, fmt.Errorf("no kind %q is registered for version %q", context.Kind, context.APIVersion)
	}
	if context.Request == nil || context.Request.UID == "" || len(context.Request.Object.Raw) == 0 {
		return nil, errors.New("the request is incomplete")
	}
	return context.Request, nil
}

func succeeded() interpreterResponse {
	return interpreterResponse{Successful: true}
}

func errored(code int32, err error) interpreterResponse {
	response := interpreterResponse{Status: &requestStatus{Code: code}}
	if err != nil {
		response.Status.Message = err.Error()
	}
	return response
}

// patched answers with the JSON patch from the object of the request to another object.
func patched(request *interpreterRequest, object any) interpreterResponse {
	current, err := json.Marshal(object)
	if err != nil {
		return errored(http.StatusInternalServerError, err)
	}
	operations, err := jsonpatch.CreatePatch(request.Object.Raw, current)
	if err != nil {
		return errored(http.StatusInternalServerError, err)
	}
	response := succeeded()
	if len(operations) == 0 {
		return response
	}
	if response.Patch, err = json.Marshal(operations); err != nil {
		return errored(http.StatusInternalServerError, err)
	}
	patchType := patchTypeJSON
	response.PatchType = &patchType
	return response
}

// makeCertificate returns the PEM text of an authority, and a serving certificate for 127.0.0.1 that it signed.
func makeCertificate() ([]byte, tls.Certificate, error) {
	var none tls.Certificate
	until := time.Now().Add(24 * time.Hour)
	rootKey, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, none, err
	}
	root := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "workloads-ca"},
		NotBefore:             time.Now().Add(-time.Minute),
		NotAfter:              until,
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	}
	rootDER, err := x509.CreateCertificate(rand.Reader, root, root, rootKey.Public(), rootKey)
	if err != nil {
		return nil, none, err
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, none, err
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2),
		Subject:      pkix.Name{CommonName: "workloads"},
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     until,
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IPAddresses:  []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	leafDER, err := x509.CreateCertificate(rand.Reader, leaf, root, key.Public(), rootKey)
	if err != nil {
		return nil, none, err
	}
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: rootDER})
	return authority, tls.Certificate{Certificate: [][]byte{leafDER}, PrivateKey: key}, nil
}

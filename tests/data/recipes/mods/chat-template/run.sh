#!/bin/bash
set -e
cp template.jinja "$WORKSPACE_DIR/own.jinja"

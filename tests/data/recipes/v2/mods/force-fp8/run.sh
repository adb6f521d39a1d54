#!/bin/bash
patch -p1 -d / < fix.patch

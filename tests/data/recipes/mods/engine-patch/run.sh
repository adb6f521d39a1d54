#!/bin/bash
python3 more/patch.py

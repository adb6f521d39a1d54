# Prints all secrets that are kept for a deployment: DEPLOYMENT.
for file in "$HOME/.local/state/sparkctl/$1/secrets"/*; do
    [ ! -f "$file" ] || cat "$file" || exit 1
done
